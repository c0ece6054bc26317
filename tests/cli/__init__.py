"""The command line on real small files, in the process and as a process of its own."""

"""What is published: tables of released keys, compact releases, trees over an order, and the files they are kept in."""

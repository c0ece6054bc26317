"""Questions asked of a release. Nothing here touches private data; floating point is allowed."""

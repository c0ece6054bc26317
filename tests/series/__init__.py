"""Series: state, bounding over periods, noise, retries, processes that die."""

"""Series: one table that grows period by period, under one guarantee for all of its periods. Private state and flow."""

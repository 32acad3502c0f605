"""From measured errors to an order with an interval: one fit for everything."""

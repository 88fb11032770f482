"""The example's app, watched."""

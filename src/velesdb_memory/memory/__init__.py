"""The operations of the service, one module for each; they know stores and embedders by their protocols only."""

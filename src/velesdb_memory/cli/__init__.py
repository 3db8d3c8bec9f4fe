"""The command line. Each command decodes, calls the service, and prints."""

"""The MCP edge: decodes a tool call, makes one call on the service, encodes the answer. Holds no rule of the domain."""

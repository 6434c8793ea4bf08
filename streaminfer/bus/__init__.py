"""The bus: the protocol, its implementations, and `connect.open_bus` that chooses one."""

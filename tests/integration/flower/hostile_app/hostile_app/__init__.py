"""Two honest nodes and a hostile one."""

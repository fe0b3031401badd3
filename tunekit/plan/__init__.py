"""What a planned training costs, in hours and dollars, on each GPU and machine. Pure."""

"""What holds a training back or endangers it, told from facts as findings. Pure."""

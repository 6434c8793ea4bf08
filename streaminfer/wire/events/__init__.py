"""Events of every data format to checked values."""

"""The draws of all subposteriors become draws and moments of one posterior. Pure: arrays in, arrays out."""

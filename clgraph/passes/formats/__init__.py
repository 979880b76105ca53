"""In which memory format, halo and element type a value lies."""

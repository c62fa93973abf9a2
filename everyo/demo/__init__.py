"""`everyo demo`: a small convolutional network learns to read handwritten digits."""

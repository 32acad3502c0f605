"""What every room stands on: validation, random streams, files written whole, measurements, axes."""

"""What a yard has beside runs: hosts, images, money."""

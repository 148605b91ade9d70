"""What belongs to the slides alone: their claims, computed again."""

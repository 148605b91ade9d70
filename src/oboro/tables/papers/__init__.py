"""What belongs to the paper of Terada et al. alone: the systems it compares with, on exact integers, and its tables again."""

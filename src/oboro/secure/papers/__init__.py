"""What belongs to the paper of Kii et al. alone: its construction, and its tables again."""

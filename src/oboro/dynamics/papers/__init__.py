"""What belongs to the paper of Ito et al. alone: its figures and tables again."""

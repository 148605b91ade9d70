"""What belongs to the paper of Miura et al. alone: its Gaussians, and its figures again."""

"""Show operators which permits are held and which tasks wait, and let them change that."""

"""Speed of ddpatch beside its peers, as ratios within one run."""

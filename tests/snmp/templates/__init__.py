"""Templates of monitoring systems, tried on a gateway where their system is at hand."""

"""The gateway on a cluster of three nodes: killed, drained, cut off from each other, and started again."""

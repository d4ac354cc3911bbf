"""What crosses a seam, written once. Functions, hosts, client, stacks and simulator read it here."""

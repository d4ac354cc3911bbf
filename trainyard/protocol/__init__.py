"""The data that functions, hosts, client, stacks and simulator exchange. Each row, signal, order and key is defined
once."""

"""The pages. Each one collects its values through trainyard.client."""

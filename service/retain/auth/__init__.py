"""Who is calling: API keys, and later users and OAuth."""

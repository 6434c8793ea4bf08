"""What can be wrong with a job, asked of the bus and told with a remedy. Nothing is changed."""

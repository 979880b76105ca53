"""Many requests on one machine: streams, batches made of concurrent requests, many models within a budget of memory."""

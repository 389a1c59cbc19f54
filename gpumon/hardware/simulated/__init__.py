"""A node made of events: jobs run on modelled cards and links, and sensors with NVML's own faults look at them."""

"""Types that every layer speaks: samples, cards, processes, jobs, verdicts, the field table. No behaviour."""

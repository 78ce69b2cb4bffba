"""Schedules: cron expressions in a time zone, and the jobs that they enqueue."""

"""Families of public models, one file each."""

"""Every option of clgraph, and the only reader of environment variables."""

from clgraph.settings.environment import FOREIGN, PREFIX, option_table, settings, variable_of
from clgraph.settings.options import Settings
from clgraph.settings.user_folder import homeless_cache_dir, user_cache_dir
from clgraph.settings.values import (
    DEVICE_CLASSES,
    EXECUTORS,
    LOG_LEVELS,
    PRECISIONS,
    PRODUCT_PRECISIONS,
    WEIGHT_GROUPS,
    WEIGHTS,
    bytes_of,
)

__all__ = [
    "DEVICE_CLASSES",
    "EXECUTORS",
    "FOREIGN",
    "LOG_LEVELS",
    "PRECISIONS",
    "PREFIX",
    "PRODUCT_PRECISIONS",
    "WEIGHTS",
    "WEIGHT_GROUPS",
    "Settings",
    "bytes_of",
    "homeless_cache_dir",
    "option_table",
    "settings",
    "user_cache_dir",
    "variable_of",
]

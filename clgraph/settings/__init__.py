"""Every option of clgraph, and the only reader of environment variables."""

from clgraph.settings.options import (
    DEVICE_CLASSES,
    EXECUTORS,
    FOREIGN,
    LOG_LEVELS,
    PRECISIONS,
    PREFIX,
    PRODUCT_PRECISIONS,
    WEIGHT_GROUPS,
    WEIGHTS,
    Settings,
    option_table,
    settings,
    variable_of,
)
from clgraph.settings.user_folder import homeless_cache_dir, user_cache_dir
from clgraph.settings.values import bytes_of

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

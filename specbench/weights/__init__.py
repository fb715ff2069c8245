"""From a model's name to a loaded torch module: finding, fetching, checking, converting weights.

Importing this package loads nothing: ``catalog`` and ``embedded`` work without torch.
"""

import logging

_TALKATIVE = ("torchao", "torch.utils._pytree", "bitsandbytes")
for _name in _TALKATIVE:  # kernels of other machines that are not there, casts inside a product
    logging.getLogger(_name).setLevel(logging.ERROR)

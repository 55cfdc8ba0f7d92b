"""Devices by their names, and Dawn."""
import atexit

from . import _weft

_open = {}
_options = {}  # what wf.use_dawn() adds to the opening of webgpu devices
_seed = 0      # of the devices' own streams
_keep = []     # modules whose libraries stay loaded


def resolve(spec):
    """The device of that name, opened on its first use; None is WEFT_DEVICE or the best there is."""
    if isinstance(spec, _weft.Device):
        return spec
    if spec is not None and not isinstance(spec, str):
        raise TypeError(f"device takes a name such as \"cpu\", not {type(spec).__name__}")
    key = (spec, _options.get("webgpu_get_proc"))
    if key not in _open:
        options = _options if spec is None or spec == "auto" or spec.startswith("webgpu") else {}
        _open[key] = _weft.Device(spec, **options)
        if _seed:
            _open[key]._manual_seed(_seed)
    return _open[key]


def device(spec=None):
    """Make the device of that name ("cpu", "webgpu", "webgpu:1") the default; without a name, say which it is."""
    if spec is None:
        return _weft._get_default()
    found = resolve(spec)
    _weft._set_default(found)
    return found


def seed_all(seed):
    global _seed
    _seed = seed
    default = _weft._current()
    for one in {id(d): d for d in (*_open.values(), default) if d is not None}.values():
        one._manual_seed(seed)


def initial_seed():
    return _seed


def use_dawn():
    """Take Dawn from the package wgpudawn for the webgpu devices that are opened from now on; returns its version."""
    try:
        import wgpudawn._lib as dawn
    except ImportError as error:
        raise ImportError("weft.use_dawn needs the package wgpudawn: pip install wgpudawn") from error
    _keep.append(dawn)
    _options["webgpu_get_proc"] = int(dawn.ffi.cast("uintptr_t", dawn.ffi.addressof(dawn.lib, "wgpuGetProcAddress")))
    return getattr(dawn, "dawn_version", "unknown")


def devices_close():
    """Close every device that was opened by name; their tensors then report an error."""
    while _open:
        _open.popitem()[1].close()


def _at_exit():
    devices_close()
    _weft._over()


def of_pickle(spec):
    """The device of that name that is open, under whatever name it was asked for, else it is opened."""
    for one in (_weft._current(), *_open.values()):
        if one is not None and one.spec == spec:
            return one
    return resolve(spec)


def _device_of_pickle(self):
    return of_pickle, (self.spec,)


_weft.Device.__reduce__ = _device_of_pickle
atexit.register(_at_exit)

"""Writes golden_jpeg.h: JPEG files made by Pillow, what Pillow decodes them to, and images that torchvision has resized
and cropped, for test_jpeg.c.

python3 tests/data/golden_jpeg.py | clang-format-14 --assume-filename=tests/data/golden_jpeg.h > tests/data/golden_jpeg.h
"""
import io

import numpy
import PIL
import PIL.features
import PIL.Image
import torchvision
from torchvision.transforms import CenterCrop, Resize


def scene(height, width, channels):
    """Smooth, with an edge: what JPEG is for."""
    y, x, c = numpy.meshgrid(range(height), range(width), range(channels), indexing="ij")
    value = 128 + 90 * numpy.sin(0.35 * x + 0.2 * y + c) + 60 * ((x > width // 2) & (y > height // 3))
    return numpy.clip(value, 0, 255).astype(numpy.uint8)


def noise(height, width, channels):
    """The pixels of test_jpeg.c's `noise`."""
    k = numpy.arange(height * width * channels, dtype=numpy.uint64)
    return ((k * 2654435761 >> 13) % 256).astype(numpy.uint8).reshape(height, width, channels)


def write(name, data):
    print(f"static const unsigned char {name}[] = {{")
    for i in range(0, len(data), 20):
        print("    " + " ".join(f"{v}," for v in data[i:i + 20]))
    print("};\n")


def jpeg(name, image, **how):
    file = io.BytesIO()
    image.save(file, "JPEG", **how)
    write(f"jpeg_{name}", file.getvalue())
    again = PIL.Image.open(io.BytesIO(file.getvalue()))
    write(f"pixels_{name}", numpy.asarray(again.convert("RGB") if again.mode == "CMYK" else again).tobytes())


def resized(name, height, width, channels, size, crop):
    pixels = noise(height, width, channels)
    image = PIL.Image.fromarray(pixels if channels == 3 else pixels[:, :, 0])
    write(f"resized_{name}", numpy.asarray(CenterCrop(crop)(Resize(size)(image))).tobytes())


print(f"""/* Made by golden_jpeg.py with Pillow {PIL.__version__} (libjpeg-turbo {PIL.features.version("libjpeg_turbo")}) and torchvision
 * {torchvision.__version__}. */
""")
jpeg("colour", PIL.Image.fromarray(scene(17, 23, 3)), quality=90)
jpeg("grey", PIL.Image.fromarray(scene(9, 8, 1)[:, :, 0]), quality=75)
jpeg("progressive", PIL.Image.fromarray(scene(16, 16, 3)), quality=80, progressive=True, subsampling=0)
jpeg("inks", PIL.Image.fromarray(scene(8, 11, 4), "CMYK"), quality=90)
resized("smaller", 37, 53, 3, 16, 12)
resized("larger", 11, 9, 1, 20, 19)
resized("odd", 61, 40, 3, 9, 8)
resized("same", 8, 13, 1, 8, 8)
resized("even", 16, 19, 1, 16, 16)

"""Train the segmentation network on drawn portraits and write `portrait.tflite`: int8, input and output too.

    python -m venv tf && tf/bin/pip install tensorflow pillow && tf/bin/python examples/portrait/train_portrait.py

Eight epochs of 2,000 pictures take two minutes of CPU. The file in the checkout was made by TensorFlow 2.21; other
versions give other weights. `portrait.py` prints the file's accuracy.
"""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from portraits import SIZE, portraits

HERE = Path(__file__).parent
PICTURES, EPOCHS, SEED = 2_000, 8, 1


def network() -> Any:
    """Return an encoder to 12x12, and a decoder to which outputs of the encoder are added."""
    layers = keras.layers
    x = inputs = keras.Input((SIZE, SIZE, 3))

    def conv(x: Any, channels: int, stride: int = 1) -> Any:  # depthwise, then pointwise
        x = layers.DepthwiseConv2D(3, strides=stride, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.Conv2D(channels, 1, use_bias=False)(x)
        return layers.ReLU(6.0)(layers.BatchNormalization()(x))
    x = layers.Conv2D(12, 3, strides=2, padding="same", use_bias=False)(x)
    x = half = layers.ReLU(6.0)(layers.BatchNormalization()(x))
    x = quarter = conv(conv(x, 24, 2), 24)
    x = conv(conv(conv(conv(x, 40, 2), 40), 40), 40)
    for beside, channels in ((quarter, 24), (half, 12)):
        x = layers.UpSampling2D(2, interpolation="bilinear")(conv(x, channels))
        x = conv(layers.Add()([x, beside]), channels)
    x = layers.Conv2D(1, 3, padding="same")(x)
    return keras.Model(inputs, layers.Activation("sigmoid")(layers.UpSampling2D(2, interpolation="bilinear")(x)))


def main() -> None:
    """Train, quantize with drawn pictures, write the file."""
    keras.utils.set_random_seed(SEED)
    pictures, masks = portraits(0, PICTURES)
    x = pictures.astype(np.float32) / 127.5 - 1
    trained = network()
    rate = keras.optimizers.schedules.CosineDecay(4e-3, EPOCHS * PICTURES // 16)
    trained.compile(keras.optimizers.Adam(rate), "binary_crossentropy")
    trained.fit(x, masks[..., None], batch_size=16, epochs=EPOCHS, verbose=2)
    converter = tf.lite.TFLiteConverter.from_keras_model(trained)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([picture[None]] for picture in x[:200])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    (HERE / "portrait.tflite").write_bytes(converter.convert())


if __name__ == "__main__":
    main()

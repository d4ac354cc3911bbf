"""TensorFlow's tutorials of GANs: two networks, and a line after each epoch with only its duration."""

import time

import tensorflow as tf

generator = tf.keras.Sequential(
    [tf.keras.Input((8,)), tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(2)]
)
discriminator = tf.keras.Sequential(
    [tf.keras.Input((2,)), tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)]
)
generator_optimizer = tf.keras.optimizers.Adam(1e-3)
discriminator_optimizer = tf.keras.optimizers.Adam(1e-3)
cross_entropy = tf.keras.losses.BinaryCrossentropy(from_logits=True)
done = tf.Variable(0)

ckpt = tf.train.Checkpoint(
    generator=generator,
    discriminator=discriminator,
    generator_optimizer=generator_optimizer,
    discriminator_optimizer=discriminator_optimizer,
    done=done,
)
ckpt_manager = tf.train.CheckpointManager(ckpt, "./checkpoints/train", max_to_keep=5)

# if a checkpoint exists, restore the latest checkpoint.
if ckpt_manager.latest_checkpoint:
    ckpt.restore(ckpt_manager.latest_checkpoint)
    print(f"Latest checkpoint restored!! {int(done)} epochs")


@tf.function
def train_step(points):
    noise = tf.random.normal([32, 8])
    with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
        generated = generator(noise, training=True)
        real_output = discriminator(points, training=True)
        fake_output = discriminator(generated, training=True)
        gen_loss = cross_entropy(tf.ones_like(fake_output), fake_output)
        disc_loss = cross_entropy(tf.ones_like(real_output), real_output) + cross_entropy(
            tf.zeros_like(fake_output), fake_output
        )
    generator_optimizer.apply_gradients(
        zip(gen_tape.gradient(gen_loss, generator.trainable_variables), generator.trainable_variables)
    )
    discriminator_optimizer.apply_gradients(
        zip(
            disc_tape.gradient(disc_loss, discriminator.trainable_variables),
            discriminator.trainable_variables,
        )
    )
    return gen_loss, disc_loss


EPOCHS = 200
for epoch in range(int(done), EPOCHS):
    start = time.time()
    for _ in range(10):
        gen_loss, disc_loss = train_step(tf.random.normal([32, 2]) + 1.0)
        print(".", end="")
        time.sleep(0.1)
    print()
    print(f"Epoch {epoch + 1}, gen_loss={gen_loss:.4f}, disc_loss={disc_loss:.4f}")
    done.assign(epoch + 1)
    if (epoch + 1) % 5 == 0:
        ckpt_save_path = ckpt_manager.save()
        print(f"Saving checkpoint for epoch {epoch + 1} at {ckpt_save_path}")
    print(f"Time taken for epoch {epoch + 1} is {time.time() - start} sec\n")

# SPDX-License-Identifier: Apache-2.0
"""Saves and loads checkpoints with frameworks that are large, as e2e/checkpoint_saver.py says. Each runs
in the environment that has it."""

import json
import os
import re
import shutil

from e2e.checkpoint_programs import arrays_of, dataclasses_as_before
from e2e.checkpoint_saver import KEPT, Kind, digest, main


# ---- TensorFlow

class TensorflowCheckpoint(Kind):
    """tf.train.CheckpointManager: the file `checkpoint` names what is complete, and the manager removes
    old ones itself."""

    def __init__(self):
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        import tensorflow as tf
        self.tf, self.manager = tf, None

    def variables(self):
        tf = self.tf
        return {"weight": tf.Variable(tf.zeros((300, 300))), "bias": tf.Variable(tf.zeros(300)),
                "step": tf.Variable(0, dtype=tf.int64)}

    def state(self, number):
        variables = self.variables()
        variables["weight"].assign(self.tf.random.stateless_normal((300, 300), (number, 1)))
        variables["bias"].assign(self.tf.random.stateless_normal((300,), (number, 2)))
        variables["step"].assign(number)
        return variables, self.arrays(variables)

    @staticmethod
    def arrays(variables):
        return {name: one.numpy() for name, one in variables.items()}

    def save(self, folder, number, state):
        checkpoint = self.tf.train.Checkpoint(**state)
        # It reads the state that is there, as after a restart of the program.
        manager = self.tf.train.CheckpointManager(checkpoint, str(folder), max_to_keep=KEPT)
        manager.save(checkpoint_number=number)

    def names(self, folder):
        state = self.tf.train.get_checkpoint_state(str(folder))
        return [int(one.rsplit("-", 1)[1]) for one in (state.all_model_checkpoint_paths if state else [])]

    def load(self, folder, number):
        variables = self.variables()
        status = self.tf.train.Checkpoint(**variables).read(str(folder / f"ckpt-{number}"))
        status.assert_existing_objects_matched()
        return self.arrays(variables)

    def remove(self, folder, number):
        """The manager removes it."""


class TensorflowSavedModel(TensorflowCheckpoint):
    """A SavedModel is complete when it has the number of a version, as TensorFlow Serving takes it."""

    def save(self, folder, number, state):
        temporary = folder / f"export-{number}"
        module = self.tf.Module()
        module.kept = state
        self.tf.saved_model.save(module, str(temporary))
        os.rename(temporary, folder / str(number))

    def names(self, folder):
        return [int(one.name) for one in folder.iterdir() if one.name.isdigit()]

    def load(self, folder, number):
        return self.arrays(dict(self.tf.saved_model.load(str(folder / str(number))).kept))

    def remove(self, folder, number):
        if (folder / str(number)).exists():
            os.rename(folder / str(number), folder / f"old-{number}")
            shutil.rmtree(folder / f"old-{number}")


# ---- JAX

class Orbax(Kind):
    """Orbax's manager saves from threads, renames a directory when it is whole, and removes old ones."""

    goes_on = False

    def __init__(self):
        os.environ["JAX_PLATFORMS"] = "cpu"
        import jax
        import numpy
        import orbax.checkpoint
        self.jax, self.numpy, self.library = jax, numpy, orbax.checkpoint

    def manager(self, folder):
        options = self.library.CheckpointManagerOptions(max_to_keep=KEPT)
        return self.library.CheckpointManager(folder, options=options)

    def state(self, number):
        key = self.jax.random.key(number)
        state = {"layer": {"weight": self.jax.random.normal(key, (300, 300)),
                           "bias": self.jax.random.normal(key, (300,))}, "step": number}
        return state, self.arrays(state)

    def arrays(self, state):
        return {**{name: self.numpy.asarray(one) for name, one in state["layer"].items()},
                "step": self.numpy.asarray(int(state["step"]))}

    def save(self, folder, number, state):
        with self.manager(folder) as manager:
            manager.save(number, args=self.library.args.StandardSave(state))
            manager.wait_until_finished()

    def names(self, folder):
        return self.library.utils.checkpoint_steps(folder)

    def load(self, folder, number):
        with self.library.StandardCheckpointer() as reader:
            return self.arrays(reader.restore(folder / str(number) / "default"))

    def remove(self, folder, number):
        """The manager removes it."""


# ---- trainers, which call us

class Training(Kind):
    """A trainer that goes on from the newest checkpoint that was saved completely, and saves after each
    step. Each run has a directory. Numbers have the run and the step."""

    run_numbers = 1_000_000
    steps = 40

    def run(self, folder, first, account):
        run = first // self.run_numbers
        while not account.stopped():
            run += 1
            last = max(account.numbers("done") - account.numbers("remove"), default=None)
            steps = (last % self.run_numbers if last else 0) + self.steps
            try:
                self.train(folder, folder / f"run-{run}", run * self.run_numbers, steps,
                           self.path(folder, last) if last else None, account)
            except Exception as error:
                account.fail(folder, run * self.run_numbers, error)

    def path(self, folder, number):
        run, step = divmod(number, self.run_numbers)
        return folder / f"run-{run}" / (self.name % step)

    def names(self, folder):
        found = []
        for one in folder.glob("run-*/" + self.name.replace("%d", "*")):
            step = re.search(r"\d+", one.name)[0]
            found.append(int(one.parent.name.removeprefix("run-")) * self.run_numbers + int(step))
        return found

    def train(self, folder, output, base, steps, last, account):
        """Trains until `steps` and saves into `output`, from the checkpoint `last` on if there is one."""
        raise NotImplementedError


class HuggingFace(Training):
    name = "checkpoint-%d"

    def __init__(self):
        os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1"}
        import safetensors.torch
        import torch
        import transformers
        self.torch, self.library, self.files = torch, transformers, safetensors.torch

    def model(self):
        self.torch.manual_seed(0)
        return self.library.BertForSequenceClassification(self.library.BertConfig(
            vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=128, max_position_embeddings=32))

    def train(self, folder, output, base, steps, last, account):
        torch = self.torch
        rows = [{"input_ids": torch.arange(16) + row, "labels": torch.tensor(row % 2)}
                for row in range(64)]

        class Watch(self.library.TrainerCallback):
            def on_step_end(self, args, state, control, model, optimizer, **_):
                number = base + state.global_step
                for old in account.numbers("done") - account.numbers("remove"):
                    if base < old <= number - KEPT:
                        account.say("remove", old)
                account.say("begin", number, digest(arrays_of(model.state_dict(),
                                                              optimizer.state_dict())))

            def on_save(self, args, state, control, **_):
                account.say("done", base + state.global_step)
                control.should_training_stop = account.stopped()

        arguments = self.library.TrainingArguments(
            str(output), max_steps=steps, save_steps=1, save_total_limit=KEPT, report_to=[],
            per_device_train_batch_size=4, use_cpu=True, disable_tqdm=True, logging_strategy="no")
        trainer = self.library.Trainer(self.model(), arguments, train_dataset=rows, callbacks=[Watch()])
        trainer.train(resume_from_checkpoint=str(last) if last else None)

    def load(self, folder, number):
        path = self.path(folder, number)
        assert json.loads((path / "trainer_state.json").read_text())["global_step"] \
            == number % self.run_numbers
        return arrays_of(self.files.load_file(path / "model.safetensors"),
                         self.torch.load(path / "optimizer.pt"))


class Lightning(Training):
    name = "step=%d.ckpt"

    def __init__(self):
        with dataclasses_as_before():
            import pytorch_lightning
        import torch
        self.torch, self.library = torch, pytorch_lightning

    def run(self, folder, first, account):
        with dataclasses_as_before():  # a trainer imports more
            super().run(folder, first, account)

    def model(self):
        torch = self.torch

        class Model(self.library.LightningModule):
            def __init__(self):
                super().__init__()
                self.layers = torch.nn.Sequential(torch.nn.Linear(300, 300), torch.nn.Linear(300, 1))

            def training_step(self, batch, index):
                return self.layers(batch).square().mean()

            def configure_optimizers(self):
                return torch.optim.Adam(self.parameters())
        return Model()

    def train(self, folder, output, base, steps, last, account):
        class Saving(self.library.callbacks.ModelCheckpoint):
            def _save_checkpoint(self, trainer, filepath):
                number = base + trainer.global_step
                account.say("begin", number, digest(arrays_of(
                    trainer.model.state_dict(), trainer.optimizers[0].state_dict())))
                super()._save_checkpoint(trainer, filepath)
                account.say("done", number)
                trainer.should_stop = account.stopped()

            def _remove_checkpoint(self, trainer, filepath):
                account.say("remove", base + int(re.search(r"step=(\d+)", filepath)[1]))
                super()._remove_checkpoint(trainer, filepath)

        saving = Saving(dirpath=output, every_n_train_steps=1, save_top_k=KEPT, monitor="step",
                        mode="max", filename="{step}")
        loader = self.torch.utils.data.DataLoader(self.torch.randn(64, 300), batch_size=8)
        trainer = self.library.Trainer(
            accelerator="cpu", max_steps=steps, min_steps=0, callbacks=[saving], logger=False,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=account.path.parent)
        trainer.fit(self.model(), loader, ckpt_path=str(last) if last else None)

    def load(self, folder, number):
        found = self.torch.load(self.path(folder, number))
        return arrays_of(found["state_dict"], found["optimizer_states"][0])


if __name__ == "__main__":
    main({"checkpoint": TensorflowCheckpoint, "saved_model": TensorflowSavedModel, "orbax": Orbax,
          "hugging_face": HuggingFace, "lightning": Lightning})

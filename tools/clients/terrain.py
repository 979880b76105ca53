# needs: --no-deps: adaptive-terrain-diffusion
"""Make terrains of a difficulty by one step of a diffusion model, and variations of one, larger than the network's."""

from terrain_diffusion import TerrainGenerator

generator = TerrainGenerator(device="cpu")
terrains, difficulties = generator.generate(2, shape=(96, 160), difficulty="random", seed=7, return_difficulties=True)
print(difficulties, terrains.shape, *(f"{x:.4f}" for x in terrains[:, ::31, ::37].ravel()))
varied = generator.generate_from(terrains[0], difficulty=75, strength=0.5, variants=2, seed=3)
print(varied.shape, *(f"{x:.4f}" for x in varied[:, ::31, ::37].ravel()))

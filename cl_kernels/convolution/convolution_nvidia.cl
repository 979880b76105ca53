// Convolution with groups, bias and post-operations for NVIDIA GPUs on byxf: an implicit matrix product.
//
// x [N, C, H, W] and y [N, O, H, W] in byxf, w [O][kh][kw][C / groups], bias [O] or none; half or float, as PRODUCT of
// nvidia_tile.clh wants. The rows of the product are the pixels of all images, its columns the outputs of a group, its k
// the taps times the channels. C of a group is a multiple of CHUNK, O of a group of 4. RANK = 5: n, y, x, block, channel.
// Grid: (tiles * TILE_ITEMS, parts of k, groups), groups of TILE_ITEMS; a group makes TILE_ROWS pixels of TILE_COLUMNS outputs
// from its part of k. Where there are several parts (PARTS, default 0), the sums go to `parts` [part][n][y][x][O], for
// matmul_gpu_sum; else y is written.
// table: views of y and x, channels and outputs of a group, taps, images, height and width of y, height and width of x,
// strides, pads before, bias offset (-1: none) and pitch, channels times their pitch, and where PRODUCT scales (an image each)
// what TILE_SCALES reads; taps: offset in x and place along y and x of each.
// Error: that of PRODUCT for n = taps * C / groups terms, plus the post-operations'.
#define RANK 5
#include "halves.clh"
#include "vectors.clh"
#include "ptx.clh"
#include "ptx_75.clh"
#include "nvidia_convolution.clh"
#include "nvidia_taps.clh"

__kernel __attribute__((reqd_work_group_size(TILE_ITEMS, 1, 1))) void convolution_nvidia(
    TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), TENSOR(parts), TENSOR(largest), __global const int* table,
    __global const int* taps, POST_PARAMETERS) {
  __local __attribute__((aligned(128))) char memory[TILE_LOCAL];
  __global const int* x = table + VIEW;
  __global const int* rest = x + VIEW;
  const int blocks = rest[0] / CHUNK, outputs = rest[1], units = rest[2] * blocks, pixels = rest[3] * rest[4] * rest[5];
  const int id = get_local_id(0), warp = id / 32, lane = id % 32, group = get_group_id(2);
  const int2 start = tile_start(pixels, outputs), steps = tile_steps(units);
  const int p0 = start.x, o0 = start.y;

  // What this work-item copies: chunk `id % CHUNKS` of every TILE_STRIDE-th row.
  const int row = id / CHUNKS, chunk = id % CHUNKS, place = PLACE(row, chunk);
  __global const T* source = BASE_OF(const T, in0) + x[0] + group * rest[0];
  __global const uint4* weights = BASE_OF(const uint4, in1) + ((long)group * outputs + o0 + row) * units;
  int top[ROWS_EACH], left[ROWS_EACH], base[ROWS_EACH];
  tile_windows(p0 + row, pixels, x, rest, top, left, base);
  const uint columns = tile_there(o0 + row, outputs, COLUMNS_EACH);
  TILE_TAPS(steps.x)

  tile_sums sums;
  tile_clear(sums);
  TILE_SCALES(memory, BASE_OF(const float, largest), rest + 15, 0, 0, p0, pixels, rest[4] * rest[5], warp, lane)
  TILE_PIPELINE(sums, memory, steps.y, warp, lane);
  TILE_SCALE_BACK(sums);
  CONVOLUTION_WRITE(sums, memory);
}

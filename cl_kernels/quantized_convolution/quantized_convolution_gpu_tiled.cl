// Convolution of 8-bit integers with groups, scaled, with bias and post-operations, for GPUs: an implicit matrix product.
//
// x [N, C, H, W] and y [N, O, H, W] in byxf, x and w [O][kh][kw][C / groups] of char; start (int), scale and bias (float)
// [O]. y = (start + sum x w) * scale + bias; where a window leaves x, it reads `zero`. The rows of the product are the
// pixels of all images, its columns the outputs of a group, its k the taps times the channels. C and O of a group are
// multiples of 4. RANK = 5: n, y, x, block, channel.
// Grid: (tiles of outputs * 16, tiles of pixels * 16, groups), groups of 16 x 16; a group makes 64 pixels of 64 outputs,
// 64 k at a time; a work-item 4 of each.
// table: views of y and x, channels and outputs of a group, taps, images, height and width of y, height and width of x,
// strides, pads before, `zero` four times in a word; taps: offset in x and place along y and x of each.
// INT_DOT  whether the device multiplies and adds four pairs at once (cl_khr_integer_dot_product; default 0)
// T, OUT   as of quantized_end.clh
// Error: 2^-24 |sum * scale| + 2^-24 |y|, plus the post-operations'. The sum is exact.
#define RANK 5
#ifndef INT_DOT
  #define INT_DOT 0
#endif
#include "quantized_end.clh"
#include "pixel_window.clh"

#define STEP 16
#define SIDE 64

#if INT_DOT
  #pragma OPENCL EXTENSION cl_khr_integer_dot_product : enable
  #define DOT(a, b) dot_4x8packed_ss_int(a, b)
#else
static int dot_of_bytes(const uint a, const uint b) {
  const int4 p = convert_int4(as_char4(a)) * convert_int4(as_char4(b));
  return p.x + p.y + (p.z + p.w);
}
  #define DOT(a, b) dot_of_bytes(a, b)
#endif

__kernel __attribute__((reqd_work_group_size(16, 16, 1))) void quantized_convolution_gpu_tiled(
    TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(in3), TENSOR(in4), TENSOR(out0), __global const int* table,
    __global const int* taps, POST_PARAMETERS) {
  // Four neighbouring k of a row or column a word; one vector more a k keeps those of a row in different banks.
  __local uint4 rows[STEP][SIDE / 4 + 1];
  __local uint4 columns[STEP][SIDE / 4 + 1];
  __global const int* y = table;
  __global const int* x = y + VIEW;
  __global const int* rest = x + VIEW;
  const int blocks = rest[0] / 4, outputs = rest[1], height = rest[4], width = rest[5];
  const int units = rest[2] * blocks, pixels = rest[3] * height * width;
  const int tx = get_local_id(0), ty = get_local_id(1), group = get_global_id(2);
  const int o0 = get_group_id(0) * SIDE, p0 = get_group_id(1) * SIDE;
  __global const char* source = BASE_OF(const char, in0) + x[0] + group * rest[0];
  __global const uint* weights = BASE_OF(const uint, in1) + ((long)group * outputs + o0) * units;

  // This work-item loads word tx of every 16th row and column from ty on.
  int top[4], left[4], base[4];
  for (int i = 0; i < 4; i++) pixel_window(p0 + ty + 16 * i, pixels, x, rest, top + i, left + i, base + i);
  int tap = tx / blocks, block = tx % blocks;
  const int more_taps = STEP / blocks, more_blocks = STEP % blocks;

  int4 sums[4];
  for (int i = 0; i < 4; i++) sums[i] = (int4)(0);
  for (int unit = tx; unit < units + tx; unit += STEP) {
    __global const int* t = taps + 3 * min(tap, rest[2] - 1);
    for (int i = 0; i < 4; i++) {
      const int inside = (uint)(top[i] + t[1]) < (uint)rest[6] && (uint)(left[i] + t[2]) < (uint)rest[7];
      const int row = ty + 16 * i, o = o0 + row;
      ((__local uint*)rows[tx])[row] =
          inside ? *(__global const uint*)(source + base[i] + t[0] + block * 4) : (uint)rest[12];
      ((__local uint*)columns[tx])[row] = unit < units && o < outputs ? weights[(long)row * units + unit] : 0;
    }
    tap += more_taps;
    block += more_blocks;
    if (block >= blocks) {
      block -= blocks;
      tap++;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < STEP; k++) {
      const uint4 p = rows[k][ty], q = columns[k][tx];
      sums[0] += (int4)(DOT(p.x, q.x), DOT(p.x, q.y), DOT(p.x, q.z), DOT(p.x, q.w));
      sums[1] += (int4)(DOT(p.y, q.x), DOT(p.y, q.y), DOT(p.y, q.z), DOT(p.y, q.w));
      sums[2] += (int4)(DOT(p.z, q.x), DOT(p.z, q.y), DOT(p.z, q.z), DOT(p.z, q.w));
      sums[3] += (int4)(DOT(p.w, q.x), DOT(p.w, q.y), DOT(p.w, q.z), DOT(p.w, q.w));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const int o = o0 + 4 * tx, channel = group * outputs + o;
  if (o >= outputs) return;
  for (int i = 0; i < 4; i++) {
    const int p = p0 + 4 * ty + i;
    if (p >= pixels) continue;
    const int at[RANK] = {p / (height * width), p / width % height, p % width, channel / 4, 0};
    STORE_SCALED(y, sums[i], at, channel);
  }
}

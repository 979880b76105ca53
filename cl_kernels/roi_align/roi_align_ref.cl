// Regions of images as small images of one size, by interpolated samples (He et al. 2017, Mask R-CNN, section 3).
//
// x [N, C, H, W], regions [R, 4] (x1, y1, x2, y2), the image of each [R] (long), y [R, C, rows, columns]; float or half.
// Grid: one work-item a bin of CHANNELS channels, n of them: where its samples lie is found once. RANK = 4. table: regions, blocks
// of channels, rows and columns of y, views of y and x, height and width of x, origin and pitches of the regions, origin
// and pitch of the images, images, samples along a side of a bin (0: as many as pixels, at most 4096), whether a pixel's
// centre is at 0.5, whether the largest of the samples (each the largest of its four weighted neighbours) instead of
// their mean, channels. An image that is not there counts as the nearest that is.
// LOAD_REGION: reads an element of the regions, of type REGION (default float).
// Error: a place is off by 8 * 2^-24 * (|place| + size of x), its shares by as much; then (samples + 8) * 2^-24 * mean |x|.
#define RANK 4
#include "tensor.clh"

#ifndef REGION
  #define REGION float
  #define LOAD_REGION(p, i) ((p)[i])
#endif

#define CHANNELS 16

// Pixels before and behind a place, and the share of each; no share where it does not count.
typedef struct {
  int low, high;
  REAL first, second;
} neighbours;

// Whether a sample is a zero, whatever the pixels are: 0 times an infinite one is none.
#define IS_OUTSIDE(k) (k.first == 0 && k.second == 0)

static neighbours neighbours_of(const REAL place, const int size) {
  const REAL at = fmax(place, (REAL)0);
  const int low = min((int)fmin(at, (REAL)size), size - 1), high = min(low + 1, size - 1);
  const REAL share = low >= size - 1 ? 0.0f : at - low;
  const int inside = place >= -1.0f && place <= size;
  return (neighbours){low, high, inside ? 1.0f - share : 0.0f, inside ? share : 0.0f};
}

__kernel void roi_align_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0), __global const int* table,
                            const float scale, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* rest = x + VIEW;
  const int largest = rest[10], first = at[1] * CHANNELS, channels = min(CHANNELS, rest[11] - first);
  __global const REGION* region = BASE_OF(const REGION, in1) + rest[2] + at[0] * rest[3];
  const long image = clamp(BASE_OF(const long, in2)[rest[5] + at[0] * rest[6]], 0l, (long)rest[7] - 1);
  __global const T* source = BASE_OF(const T, in0) + x[0] + (int)image * x[1] + first * x[2];

  // Of y, then of x: where the bin begins, how long a sample is, how many there are.
  REAL begin[2], step[2];
  int samples[2];
  for (int axis = 0; axis < 2; axis++) {
    const int bins = table[2 + axis];
    const REAL offset = rest[9] ? 0.5f : 0.0f, from = LOAD_REGION(region, (1 - axis) * rest[4]) * scale - offset;
    const REAL whole = LOAD_REGION(region, (3 - axis) * rest[4]) * scale - offset - from;
    const REAL length = rest[9] ? whole : fmax(whole, (REAL)1), bin = length / bins;
    samples[axis] = rest[8] > 0 ? rest[8] : bin > 0 ? (int)fmin(ceil(bin), (REAL)4096) : 0;
    step[axis] = bin / max(samples[axis], 1);
    begin[axis] = from + at[2 + axis] * samples[axis] * step[axis];
  }
  const int pitch = x[2];
  REAL made[CHANNELS];
  for (int c = 0; c < CHANNELS; c++) made[c] = largest ? -INFINITY : 0.0f;
  for (int i = 0; i < samples[0]; i++) {
    const neighbours rows = neighbours_of(begin[0] + (i + 0.5f) * step[0], rest[0]);
    for (int j = 0; j < samples[1]; j++) {
      const neighbours columns = neighbours_of(begin[1] + (j + 0.5f) * step[1], rest[1]);
      if (IS_OUTSIDE(rows) || IS_OUTSIDE(columns)) {
        for (int c = 0; largest && c < channels; c++) made[c] = fmax(made[c], (REAL)0);
        continue;
      }
      const int low = rows.low * x[3], high = rows.high * x[3], left = columns.low * x[4], right = columns.high * x[4];
      const REAL a = rows.first * columns.first, b = rows.first * columns.second;
      const REAL d = rows.second * columns.first, e = rows.second * columns.second;
      __global const T* upper = source + low;
      __global const T* lower = source + high;
      if (largest)
        for (int c = 0; c < channels; c++, upper += pitch, lower += pitch)
          made[c] = fmax(made[c], fmax(fmax(LOAD(upper, left) * a, LOAD(upper, right) * b),
                                       fmax(LOAD(lower, left) * d, LOAD(lower, right) * e)));
      else
        for (int c = 0; c < channels; c++, upper += pitch, lower += pitch)
          made[c] += LOAD(upper, left) * a + LOAD(upper, right) * b + LOAD(lower, left) * d + LOAD(lower, right) * e;
    }
  }
  const int count = samples[0] * samples[1];
  for (int c = 0; c < channels; c++) {
    at[1] = first + c;
    const REAL v = count == 0 ? 0.0f : largest ? made[c] : made[c] / count;
    STORE(BASE_OF(T, out0), element(y, at), POST_ALL(v, at));
  }
}

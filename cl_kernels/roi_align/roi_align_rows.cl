// Means or maxima of samples of regions (roi_align_ref.cl), float: the rows under a bin are mixed once for all beside it.
//
// A mean of bilinear samples is separable: rows of x are mixed by the shares of a row of bins, in vectors, then columns.
// So is the largest weighted neighbour of all samples, because no share is below 0.
// A ticket is a run of blocks of channels of regions, in this order. All tensors are dense; x has at most ROI_WIDTH columns.
// An image that is not there counts as the nearest that is. Maxima leave out what is no number.
// Error: as of roi_align_ref.
//
// inp, regions, images, out   x [pictures][channels][height][width]; [n][4]; [n], of 8 bytes; [n][channels][rows][columns]
// block, blocks               channels of a block, blocks of a region;  count: blocks of all regions
// samples                     along a side of a bin; 0: as many as pixels, at most 4096
// centred                     whether a pixel's centre is at 0.5;  maximum: whether it makes maxima
// scale                       of regions;  ticket_blocks: blocks of a ticket
#include "tile.clh"

#define ROI_WIDTH 2048
#define ROI_LISTED 256

// Pixels before and behind a place, and the share of each; no share where it does not count.
typedef struct {
  int low, high;
  float first, second;
} roi_neighbours;

// Whether a sample is a zero, whatever the pixels are: 0 times an infinite one is none.
#define IS_OUTSIDE(k) (k.first == 0 && k.second == 0)

// A side of a region: where its bins begin, how long a sample is, how many a bin has; neighbours of the first ROI_LISTED.
typedef struct {
  float begin, step;
  int size, samples;
  roi_neighbours listed[ROI_LISTED];
} roi_side;

static roi_neighbours roi_neighbours_of(const roi_side* s, const int sample) {
  const float place = s->begin + (sample + 0.5f) * s->step, at = fmax(place, 0.0f);
  const int low = min((int)fmin(at, (float)s->size), s->size - 1), high = min(low + 1, s->size - 1);
  const float share = low >= s->size - 1 ? 0.0f : at - low;
  const int inside = place >= -1.0f && place <= s->size;
  return (roi_neighbours){low, high, inside ? 1.0f - share : 0.0f, inside ? share : 0.0f};
}

static void roi_side_of(roi_side* s, const float from, const float to, const int centred, const int bins, const int samples, const int size) {
  const float length = centred ? to - from : fmax(to - from, 1.0f), bin = length / bins;
  s->samples = samples > 0 ? samples : bin > 0 ? (int)fmin(ceil(bin), 4096.0f) : 0;
  s->begin = from;
  s->step = bin / max(s->samples, 1);
  s->size = size;
  for (int i = 0; i < min(ROI_LISTED, bins * s->samples); i++) s->listed[i] = roi_neighbours_of(s, i);
}

static roi_neighbours roi_sample_of(const roi_side* s, const int sample) {
  return sample < ROI_LISTED ? s->listed[sample] : roi_neighbours_of(s, sample);
}

// Block `id`.
NOINLINE static void roi_align_block(__global const roi_align_rows_desc* d, __global char** banks, const int id) {
  const int r = id / d->blocks, first = id % d->blocks * d->block, channels = d->channels, height = d->height;
  const int width = d->width, rows = d->rows, columns = d->columns, centred = d->centred, largest = d->maximum;
  const float offset = centred ? 0.5f : 0.0f;
  const float4 region = vload4(r, AT(const float, banks, d->regions)) * d->scale - offset;
  roi_side down, across;
  roi_side_of(&down, region.y, region.w, centred, rows, d->samples, height);
  roi_side_of(&across, region.x, region.z, centred, columns, d->samples, width);
  int left = width, right = -1;
  for (int i = 0; i < columns * across.samples; i++) {
    const roi_neighbours k = roi_sample_of(&across, i);
    left = min(left, k.low);
    right = max(right, k.high);
  }
  left = max(min(left, width - 16), 0);

  const int image = (int)clamp(AT(const long, banks, d->images)[r], 0l, (long)d->pictures - 1);
  const int count = down.samples * across.samples;
  __global const float* x = AT(const float, banks, d->inp) + ((long)image * channels + first) * height * width;
  __global float* y = AT(float, banks, d->out) + ((long)r * channels + first) * rows * columns;
  float mixed[ROI_WIDTH + 16];
  for (int c = first; c < min(first + d->block, channels); c++, x += height * width) {
    for (int i = 0; i < rows; i++) {
      for (int at = left; at <= right; at += 16) {
        const int begin = max(min(at, width - 16), 0);
        float16 sum = (float16)(largest ? -INFINITY : 0.0f);
        for (int s = 0; s < down.samples; s++) {
          const roi_neighbours k = roi_sample_of(&down, i * down.samples + s);
          if (IS_OUTSIDE(k)) {
            if (largest) sum = sum > 0.0f ? sum : (float16)(0.0f);
            continue;
          }
          __global const float *upper = x + k.low * width + begin, *lower = x + k.high * width + begin;
          float16 a, b;
          if (width >= 16)
            a = vload16(0, upper), b = vload16(0, lower);
          else {
            float parts[2][16] = {{0}};
            for (int j = 0; j < width; j++) parts[0][j] = upper[j], parts[1][j] = lower[j];
            a = vload16(0, parts[0]), b = vload16(0, parts[1]);
          }
          if (largest) {
            a *= k.first, b *= k.second;
            sum = a > sum ? a : sum, sum = b > sum ? b : sum;
          } else {
            sum = fma((float16)(k.first), a, fma((float16)(k.second), b, sum));
          }
        }
        vstore16(sum, 0, mixed + begin - left);
      }
      for (int j = 0; j < columns; j++) {
        float sum = largest ? -INFINITY : 0.0f;
        for (int s = 0; s < across.samples; s++) {
          const roi_neighbours k = roi_sample_of(&across, j * across.samples + s);
          if (IS_OUTSIDE(k)) {
            sum = largest ? fmax(sum, 0.0f) : sum;
            continue;
          }
          const float a = mixed[k.low - left], b = mixed[k.high - left];
          sum = largest ? fmax(sum, fmax(k.first * a, k.second * b)) : fma(k.first, a, fma(k.second, b, sum));
        }
        *y++ = count == 0 ? 0.0f : largest ? sum : sum / count;
      }
    }
  }
}

static void roi_align_rows(__global const roi_align_rows_desc* d, __global char** banks, __global char* scratch,
                           const int ticket, __global const post_step* post, const int posts) {
  const int begin = ticket * d->ticket_blocks, end = min(begin + d->ticket_blocks, d->count);
  for (int id = begin; id < end; id++) roi_align_block(d, banks, id);
}
#undef ROI_WIDTH
#undef ROI_LISTED
#undef IS_OUTSIDE

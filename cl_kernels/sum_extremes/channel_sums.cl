// The extremes of the sums of each channel, in front of and behind what notes them (post_tile.clh). One ticket.
//
// noted        `channels` ints, and as many more
// scale, bias  of each channel
// begin        1: write the least int for each channel, then the largest;  0: make y = sum * scale + bias of what stands there,
//              as a float in the place of each
//
// Error: a sum beyond 2^24 is rounded to float, y once more.
#include "tile.clh"

static void channel_sums(__global const channel_sums_desc* d, __global char** banks, __global char* scratch, const int ticket,
                         __global const post_step* post, const int posts) {
  __global int* noted = AT(int, banks, d->noted);
  __global const float *scale = AT(const float, banks, d->scale), *bias = AT(const float, banks, d->bias);
  for (int i = 0; i < 2; i++)
    for (int c = 0; c < d->channels; c++, noted++)
      if (d->begin)
        *noted = i ? INT_MAX : INT_MIN;
      else
        *(__global float*)noted = fma((float)*noted, scale[c], bias[c]);
}

import { describe, expect, it } from 'vitest';
import { parseEndpoint, webhookUrlProblem } from './target-address.ts';

describe('webhookUrlProblem', () => {
  it.each([
    ['hooks.example.com', 'is not a URL such as https://host/path'],
    ['', 'is not a URL such as https://host/path'],
    ['https://', 'is not a URL such as https://host/path'],
    ['ftp://host/x', 'must begin with https:// or http://'],
    ['https://host/x#y', 'must not have a fragment (#...)'],
    ['https://u:%zz@host/', 'has credentials with a damaged escape'],
    ['https://host/x', undefined],
    ['http://127.0.0.1:8080', undefined],
  ])('says of %j: %s', (url, problem) => {
    expect(webhookUrlProblem(url)).toBe(problem);
  });
});

describe('parseEndpoint', () => {
  it.each([
    ['https://hooks.example.com/weir/events', 'https://hooks.example.com/weir/events'],
    ['http://user:S3CRET@host:8080/v1', 'http://*****@host:8080/v1'],
    ['https://S3CRET@host/', 'https://*****@host/'],
    ['https://host/in?token=S3CRET&x=1', 'https://host/in?*****'],
    ['https://host/services/T0S3CRET/B0/zzS3CRETzz', 'https://host/services/*****/*****/*****'],
    ['https://host/abcdefghijklmnopqrstuvwxyz', 'https://host/*****'],
    ['https://host/hooks/hunter', 'https://host/hooks/*****'],
  ])('names %s as %s', (url, label) => {
    expect(parseEndpoint(url).label).toBe(label);
  });

  it('moves credentials from the URL into a header', () => {
    expect(parseEndpoint('https://us%3Aer:p%40ss@host/x?y=1')).toMatchObject({
      url: 'https://host/x?y=1',
      authorization: `Basic ${btoa('us:er:p@ss')}`,
    });
    expect(parseEndpoint('https://host/x').authorization).toBeUndefined();
  });

  it('throws without showing the URL', () => {
    expect(() => parseEndpoint('user:S3CRET@host')).toThrow(
      'a webhook URL must begin with https:// or http://',
    );
  });
});
